package tail

import (
	"bytes"
	"fmt"
)

// appendHexdump appends bytes as `hexdump -C` shows them, so many per row, with rows after the first indented. Rows that repeat the
// one before are a single asterisk. What fits into one row has no offset.
func appendHexdump(b, data []byte, indent, perRow int) []byte {
	long := len(data) > perRow
	repeats := false
	for at := 0; at < len(data); at += perRow {
		row := data[at:min(at+perRow, len(data))]
		if at > 0 && at+perRow < len(data) && bytes.Equal(row, data[at-perRow:at]) {
			if !repeats {
				b = append(appendBlanks(append(b, '\n'), indent), '*')
			}
			repeats = true
			continue
		}
		repeats = false
		if at > 0 {
			b = appendBlanks(append(b, '\n'), indent)
		}
		if long {
			b = fmt.Appendf(b, "%04x  ", at)
		}
		b = appendRow(b, row, perRow, long)
	}
	return b
}

// rowWidth is that of a row with an offset.
func rowWidth(perRow int) int {
	return len("0000  ") + len("00 ")*perRow + perRow/9 + len(" ||") + perRow
}

// appendRow appends bytes in hexadecimal, and as text. Short ones are filled up if they are to be aligned.
func appendRow(b, row []byte, perRow int, align bool) []byte {
	const hex = "0123456789abcdef"
	for i := range perRow {
		if i == 8 && (align || len(row) > 8) {
			b = append(b, ' ')
		}
		switch {
		case i < len(row):
			b = append(b, hex[row[i]>>4], hex[row[i]&15], ' ')
		case align:
			b = append(b, "   "...)
		}
	}
	b = append(b, " |"...)
	for _, c := range row {
		if c < ' ' || c > '~' {
			c = '.'
		}
		b = append(b, c)
	}
	return append(b, '|')
}

func appendBlanks(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}
