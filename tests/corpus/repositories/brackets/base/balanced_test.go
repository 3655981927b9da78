package brackets

import (
	"os"
	"strings"
	"testing"
)

func TestBalanced(t *testing.T) {
	data, err := os.ReadFile("testdata/balanced.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		text, want, _ := strings.Cut(line, " ")
		t.Run(text, func(t *testing.T) {
			if got := Balanced(text); got != (want == "yes") {
				t.Errorf("Balanced(%q) = %v", text, got)
			}
		})
	}
}
