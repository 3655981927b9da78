const { label } = require("../cart");

test("two things", () => {
  expect(label(2)).toBe("2 items");
});

test("a single thing", () => {
  expect(label(1)).toBe("1 items");
});
