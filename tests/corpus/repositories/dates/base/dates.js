/** Whether a year has 366 days. */
function isLeap(year) {
  return year % 4 === 0;
}

/** A date as ISO 8601 writes it. */
function iso(year, month, day) {
  return `${year}-${month}-${day}`;
}

module.exports = { isLeap, iso };
