const assert = require("node:assert/strict");
const test = require("node:test");
const { fields } = require("../src/csv");

test("fields are parted by commas", () => {
  assert.deepEqual(fields("a,b,c"), ["a", "b", "c"]);
});

test("a comma in quotes does not part", () => {
  assert.deepEqual(fields('a,"b,c",d'), ["a", "b,c", "d"]);
});
