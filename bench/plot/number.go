package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// caption is a figure and, behind it, how many times ringfold's that is.
func caption(r result) string {
	if r.Reader == ringfold || r.Ratio == 0 {
		return number(r.Value)
	}
	return fmt.Sprintf("%s (%s)", number(r.Value), ratio(r.Ratio))
}

// ratio has three digits at most above 1, and two below.
func ratio(v float64) string {
	switch {
	case v < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64) + "x"
	case v >= 100:
		return number(math.Round(v)) + "x"
	case v < 10:
		return fmt.Sprintf("%.2fx", v)
	default:
		return fmt.Sprintf("%.1fx", v)
	}
}

// number has three digits, or as many as a whole number takes.
func number(v float64) string {
	digits := 3
	if a := math.Abs(v); a >= 1000 {
		digits = int(math.Log10(a)) + 1
	}
	s := strconv.FormatFloat(v, 'g', digits, 64)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return thousands(s)
}

// short has two digits from 0.1 on, or as many as a whole number takes.
func short(v float64) string {
	switch {
	case v < 1:
		return fmt.Sprintf("%.2f", v)
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return number(math.Round(v))
	}
}

// thousands separates whole numbers' digits, from five on.
func thousands(s string) string {
	if len(s) < 5 || strings.ContainsAny(s, ".-") {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
