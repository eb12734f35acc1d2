package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Format is how a command prints.
type Format string

// Formats.
const (
	Text    Format = "text"    // for people
	Compact Format = "compact" // for narrow terminals and for grep: a line per event, without colour
	JSON    Format = "json"    // JSON Lines: an object per line
)

// Output says how a command prints.
type Output struct{ Format Format }

// Flags defines -o and --json.
func (o *Output) Flags(f *pflag.FlagSet) {
	o.Format = Text
	f.VarP(Choice(&o.Format, Text, Compact, JSON), "output", "o", "print `text|compact|json`; json is an object per line")
	f.BoolFunc("json", "the same as -o json", func(string) error {
		o.Format = JSON
		return nil
	})
}

// Choice is a flag that sets value to one of some words.
func Choice[T ~string](value *T, words ...T) pflag.Value { return choice[T]{value, words} }

type choice[T ~string] struct {
	value *T
	words []T
}

func (c choice[T]) Set(s string) error {
	if !slices.Contains(c.words, T(s)) {
		return fmt.Errorf("%q is none of %s", s, strings.ReplaceAll(strings.Trim(fmt.Sprint(c.words), "[]"), " ", ", "))
	}
	*c.value = T(s)
	return nil
}

func (c choice[T]) String() string { return string(*c.value) }

// Type is for the usage text.
func (choice[T]) Type() string { return "word" }
