// Package roman writes Roman numbers.
package roman

var signs = []struct {
	value int
	sign  string
}{
	{10, "X"}, {5, "V"}, {1, "I"},
}

// Roman is a number from 1 to 39.
func Roman(n int) string {
	text := ""
	for _, each := range signs {
		for n >= each.value {
			text += each.sign
			n -= each.value
		}
	}
	return text
}

// Chapter is a heading with its number.
func Chapter(n int) string {
	return "CHAPTER " + Roman(n)
}
