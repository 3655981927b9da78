const assert = require("assert");
const { query } = require("../urls");

describe("query", () => {
  it("escapes values", () => {
    assert.equal(query({ q: "a b" }), "q=a%20b");
  });

  it("lists all parameters", () => {
    assert.equal(query({ b: 1, a: 2 }), "b=1&a=2");
  });
});
