package roman

import "testing"

func TestSignsAreAdded(t *testing.T) {
	if got := Roman(17); got != "XVII" {
		t.Errorf("Roman(17) = %q", got)
	}
}

func TestFourIsOneBeforeFive(t *testing.T) {
	if got := Roman(4); got != "IV" {
		t.Errorf("Roman(4) = %q", got)
	}
}

func TestChapterHeading(t *testing.T) {
	if got := Chapter(2); got != "CHAPTER II" {
		t.Errorf("Chapter(2) = %q", got)
	}
}
