const assert = require("node:assert/strict");
const test = require("node:test");
const { line } = require("../src/csv");

test("a line of plain fields", () => {
  assert.equal(line(["a", "b"]), "a,b");
});

test("a line with a comma", () => {
  assert.equal(line(["a,b", "c"]), "a,b,c");
});
