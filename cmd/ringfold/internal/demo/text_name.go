package demo

import (
	"unicode"
	"unicode/utf8"
)

// appendPrintable appends what a process calls itself, without what would
// upset a terminal: escape sequences, for one.
func appendPrintable(b, name []byte) []byte {
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = '?'
		}
		b = utf8.AppendRune(b, r)
		name = name[n:]
	}
	return b
}

// cut shortens text to width, and shows it.
func cut(b []byte, width int) []byte {
	if width < 1 {
		return b[:0]
	}
	if utf8.RuneCount(b) <= width {
		return b
	}
	end := 0
	for range width - 1 {
		_, n := utf8.DecodeRune(b[end:])
		end += n
	}
	return append(b[:end], "…"...)
}
