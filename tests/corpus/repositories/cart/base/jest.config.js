module.exports = {
  collectCoverage: true,
  coverageReporters: ["text-summary"],
  coverageThreshold: { global: { lines: 80 } },
};
