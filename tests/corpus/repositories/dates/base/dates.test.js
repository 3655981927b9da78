const assert = require("node:assert/strict");
const test = require("node:test");
const { isLeap, iso } = require("./dates");

test("every fourth year is leap", () => {
  assert.equal(isLeap(2024), true);
  assert.equal(isLeap(2023), false);
});

test("a century is leap only every fourth time", () => {
  assert.equal(isLeap(1900), false);
  assert.equal(isLeap(2000), true);
});

test("a date is written", () => {
  assert.equal(iso(2024, 1, 5), "2024-1-5");
});
