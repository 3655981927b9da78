package brackets

import "testing"

func TestDepthOfTwo(t *testing.T) {
	if Depth("(())") <= Depth("()") {
		t.Error("two are deeper than one")
	}
}

func TestDepthOfNothing(t *testing.T) {
	if got := Depth(""); got != 1 {
		t.Errorf("Depth of nothing = %d", got)
	}
}
