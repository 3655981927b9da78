const { total } = require("../cart");

test("nothing costs nothing", () => {
  expect(total([])).toBe(0);
});

test("lines are added", () => {
  expect(total([{ price: 3, count: 1 }, { price: 4, count: 1 }])).toBe(7);
});

test("a line is paid as often as it is ordered", () => {
  expect(total([{ price: 3, count: 2 }])).toBe(6);
});
