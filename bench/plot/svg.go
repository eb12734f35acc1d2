package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// svg is a drawing. It has a background of its own, so it reads on any page, and follows the reader's dark mode where the page does.
type svg struct{ strings.Builder }

// Sizes are in px.
const (
	width    = 860 // of a README
	textSize = 12
)

// Colours are classes: text, lines, what lies behind them, and readers.
const style = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.title { font-weight: bold }
.header { font-size: 14px; font-weight: bold }
.card { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #e4e8ec }
.axis { stroke: #818b98 }
.spread { stroke: #1f2328; stroke-width: 1.2; fill: none }
.gap { stroke: #ffffff; stroke-width: 3 }
.ringfold { fill: #1f6feb }
.ringfold-variant { fill: #80b3f5 }
.libbpf { fill: #d98a2b }
.cilium { fill: #8e6bbf }
.libbpfgo { fill: #4c9a5b }
.aya { fill: #c4506f }
.other { fill: #8c8c8c }
.more { fill-opacity: 0.4 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.card { fill: #151b23; stroke: #3d444d }
.grid { stroke: #2a313a }
.axis { stroke: #656c76 }
.spread { stroke: #f0f6fc }
.gap { stroke: #151b23 }
}
</style>
`

// colorOf is a reader's class.
func colorOf(reader string) string {
	if reader == ringfold {
		return "ringfold"
	}
	if ours(reader) {
		return "ringfold-variant"
	}
	for _, class := range []string{"cilium", "libbpfgo", "aya", "libbpf"} {
		if strings.HasPrefix(reader, class) {
			return class
		}
	}
	return "other"
}

func newSVG(title string, height float64) *svg {
	s := &svg{}
	fmt.Fprintf(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%s\" viewBox=\"0 0 %d %s\" role=\"img\">\n<title>%s</title>\n%s",
		width, px(height), width, px(height), escape(title), style)
	fmt.Fprintf(s, "<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%s\" rx=\"8\"/>\n", width-1, px(height-1))
	return s
}

func (s *svg) String() string { return s.Builder.String() + "</svg>\n" }

// text is written from x on, around it ("middle") or up to it ("end"); y is that of the letters' feet.
func (s *svg) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(s, "<text")
	if class != "" {
		fmt.Fprintf(s, " class=\"%s\"", class)
	}
	if anchor != "" {
		fmt.Fprintf(s, " text-anchor=\"%s\"", anchor)
	}
	fmt.Fprintf(s, " x=\"%s\" y=\"%s\">%s</text>\n", px(x), px(y), escape(text))
}

func (s *svg) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(s, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", class, px(x), px(y), px(w), px(h))
}

// lines are drawn between pairs of points.
func (s *svg) lines(class string, points ...float64) {
	fmt.Fprintf(s, "<path class=\"%s\" d=\"", class)
	for ; len(points) > 0; points = points[4:] {
		fmt.Fprintf(s, "M%s %sL%s %s", px(points[0]), px(points[1]), px(points[2]), px(points[3]))
	}
	s.WriteString("\"/>\n")
}

// textWidth is at most how wide a text is, whatever font the reader has: those named above differ by a fifth.
func textWidth(text string, size float64) float64 {
	return 0.6 * size * float64(utf8.RuneCountInString(text))
}

func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text)) // a Builder has no errors
	return b.String()
}
