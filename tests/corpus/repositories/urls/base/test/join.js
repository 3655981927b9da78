const assert = require("assert");
const { join } = require("../urls");

describe("join", () => {
  it("joins", () => {
    assert.equal(join("http://a.example", "b"), "http://a.example/b");
  });

  it("has one slash between base and path", () => {
    assert.equal(join("http://a.example/", "/b"), "http://a.example/b");
  });
});
