/** One slash between a base and a path. */
function join(base, path) {
  return `${base}/${path}`;
}

/** Parameters sorted by name. */
function query(parameters) {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
}

module.exports = { join, query };
