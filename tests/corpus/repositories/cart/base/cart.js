/** What all lines of an order cost. */
function total(items) {
  return items.reduce((sum, item) => sum + item.price, 0);
}

/** How many things are in the cart. */
function label(count) {
  return `${count} items`;
}

module.exports = { total, label };
