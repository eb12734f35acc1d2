package tail

import (
	"bytes"
	"fmt"
)

// appendHexdump appends bytes as `hexdump -C` shows them, so many per row, with rows after the first
// indented. A single asterisk stands for rows that repeat the one before. What fits into one row has no
// offset.
func appendHexdump(b, data []byte, indent, perRow int) []byte {
	long := len(data) > perRow
	repeats := false
	for at := 0; at < len(data); at += perRow {
		row := data[at:min(at+perRow, len(data))]
		again := at > 0 && at+perRow < len(data) && bytes.Equal(row, data[at-perRow:at])
		if again && repeats {
			continue
		}
		if repeats = again; at > 0 {
			b = fmt.Appendf(b, "\n%*s", indent, "")
		}
		switch {
		case repeats:
			b = append(b, '*')
		case long:
			b = appendRow(fmt.Appendf(b, "%04x  ", at), row, hexWidth(perRow))
		default:
			b = appendRow(b, row, 0)
		}
	}
	return b
}

// hexWidth is that of so many bytes in hexadecimal: a blank between two, and one more behind the eighth.
func hexWidth(n int) int { return 3*n - 1 + n/9 }

// rowWidth is that of a row with an offset.
func rowWidth(perRow int) int { return len("0000  ") + hexWidth(perRow) + len("  ||") + perRow }

// appendRow appends bytes in hexadecimal, filled up to a width, and as text.
func appendRow(b, row []byte, width int) []byte {
	hex := fmt.Sprintf("% x", row[:min(8, len(row))])
	if len(row) > 8 {
		hex += fmt.Sprintf("  % x", row[8:])
	}
	b = fmt.Appendf(b, "%-*s  |", width, hex)
	for _, c := range row {
		if c < ' ' || c > '~' {
			c = '.'
		}
		b = append(b, c)
	}
	return append(b, '|')
}
