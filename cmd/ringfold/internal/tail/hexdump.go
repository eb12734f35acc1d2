package tail

import (
	"bytes"
	"fmt"
)

// appendHexdump appends bytes as `hexdump -C` shows them, 16 per row, with rows after the first indented. Rows that repeat the
// one before are a single asterisk. What fits into one row has no offset.
func appendHexdump(b, data []byte, indent int) []byte {
	long := len(data) > 16
	repeats := false
	for at := 0; at < len(data); at += 16 {
		row := data[at:min(at+16, len(data))]
		if at > 0 && at+16 < len(data) && bytes.Equal(row, data[at-16:at]) {
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
		b = appendRow(b, row, long)
	}
	return b
}

// appendRow appends up to 16 bytes in hexadecimal, and as text. Short ones are filled up if they are to be aligned.
func appendRow(b, row []byte, align bool) []byte {
	const hex = "0123456789abcdef"
	for i := range 16 {
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
