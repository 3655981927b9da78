// Package brackets looks at brackets.
package brackets

// Balanced says whether every bracket is closed by one of its kind.
func Balanced(text string) bool {
	open := 0
	for _, sign := range text {
		switch sign {
		case '(', '[':
			open++
		case ')', ']':
			open--
		}
		if open < 0 {
			return false
		}
	}
	return open == 0
}

// Depth says how deep brackets go.
func Depth(text string) int {
	depth, deepest := 1, 1
	for _, sign := range text {
		switch sign {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if depth > deepest {
			deepest = depth
		}
	}
	return deepest
}
