package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Count is such as 12,345,678.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// PerSecond is a count again, with a digit behind the point if it is small: 0.2 is not 0.
func PerSecond(f float64) string {
	if f < 9.95 && f != math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return Count(uint64(math.Round(f)))
}

// Bytes is such as 1.5 MiB.
func Bytes(bytes float64) string {
	unit := 0
	for ; bytes >= 1023.95 && unit < len(byteUnits)-1; unit++ { // else it would be rounded to 1024.0
		bytes /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", bytes)
	}
	return fmt.Sprintf("%.1f %s", bytes, byteUnits[unit])
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// Percent is such as 34%. What is more than nothing and less than all never looks like these.
func Percent(share float64) string {
	n := math.Round(100 * share)
	switch {
	case share > 0 && n == 0:
		n = 1
	case share < 1 && n == 100:
		n = 99
	}
	return fmt.Sprintf("%.0f%%", n)
}

// Share is Percent of n in all, a dash if that is nothing: a recording has no rings to be full.
func Share(n, all int) string {
	if all == 0 {
		return "-"
	}
	return Percent(min(float64(n)/float64(all), 1))
}

// Milliseconds is such as 7.6, or 234.
func Milliseconds(d time.Duration) string {
	ms := float64(d) / 1e6
	if ms < 99.95 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// Round leaves three digits: 48.1ms.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d.Abs()/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
