package demo

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// Sizes of the picture, in its own units. Columns have fixed places, so fonts of other widths disturb nothing.
const (
	panelWidth = 470
	gap        = 20
	lineHeight = 24
	panelTop   = 64
	margin     = 16
)

// The picture follows the system's light or dark mode. It has a background of its own, as the page may have another mode.
const style = `
.page { fill: #ffffff }
text { font: 15px ui-monospace, SFMono-Regular, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.title { font: bold 16px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.name { font: bold 15px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.panel { fill: #f6f8fa; stroke: #d1d9e0 }
.dim { fill: #59636e }
.bad { fill: #cf222e; font-weight: bold }
.good { fill: #1a7f37; font-weight: bold }
.behind-bad { fill: #ffebe9 }
.behind-good { fill: #dafbe1 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 }
text { fill: #f0f6fc }
.panel { fill: #151b23; stroke: #3d444d }
.dim { fill: #9198a1 }
.bad { fill: #ff7b72 }
.good { fill: #56d364 }
.behind-bad { fill: #3c1618 }
.behind-good { fill: #12261e }
}
`

// column is where a column of the picture lies in its panel.
type column struct {
	x     int
	right bool // x is its right edge
	most  int  // characters
}

var (
	timeColumn  = column{84, true, 8}
	cpuColumn   = column{126, true, 3}
	eventColumn = column{142, false, 7}
	pidColumn   = column{254, true, 7}
	whoColumn   = column{268, false, 20}
)

// picture draws the excerpt in both orders, as SVG.
func picture(s *summary) []byte {
	x := s.byRing.best
	height := panelTop + lineHeight*(len(x.rows)+1) + 24
	var b bytes.Buffer
	wide, high := 2*panelWidth+gap+2+2*margin, height+2*margin
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%d %d %d %d\" role=\"img\">\n", -margin, -margin, wide, high)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", escape(headline(s)), style)
	fmt.Fprintf(&b, "<rect class=\"page\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", -margin, -margin, wide, high)
	write(&b, 1, 24, "title", "start", headline(s))
	ordered := x.inOrder()
	for panel, name := range []string{"Read ring by ring", "Read in order"} {
		left := 1 + panel*(panelWidth+gap)
		fmt.Fprintf(&b, "<rect class=\"panel\" x=\"%d\" y=\"42\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", left, panelWidth, height-44)
		write(&b, left+16, panelTop+4, "name", "start", name)
		y := panelTop + lineHeight + 6
		for _, head := range []struct {
			column
			text string
		}{{timeColumn, "ms"}, {cpuColumn, "CPU"}, {eventColumn, "event"}, {pidColumn, "pid"}, {whoColumn, "command"}} {
			head.write(&b, left, y, "dim", head.text)
		}
		for i := range x.rows {
			r, class := x.rows[i], "bad"
			if panel == 1 {
				r, class = ordered[i], "good"
			}
			y += lineHeight
			r.draw(&b, x, left, y, class)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// draw writes a row; class is for those of the pair in the wrong order.
func (r row) draw(b *bytes.Buffer, x excerpt, left, y int, class string) {
	if r.wrong {
		fmt.Fprintf(b, "<rect class=\"behind-%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", class, left+1, y-17, panelWidth-2, lineHeight)
	} else {
		class = ""
	}
	c := r.cells(x)
	timeColumn.write(b, left, y, class, c.time)
	cpuColumn.write(b, left, y, class, c.cpu)
	eventColumn.write(b, left, y, class, c.event)
	pidColumn.write(b, left, y, class, c.pid)
	whoColumn.write(b, left, y, class, c.who)
}

func (c column) write(b *bytes.Buffer, left, y int, class, text string) {
	anchor := "start"
	if c.right {
		anchor = "end"
	}
	write(b, left+c.x, y, class, anchor, cut(text, c.most))
}

func write(b *bytes.Buffer, x, y int, class, anchor, text string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" class=\"%s\" text-anchor=\"%s\">%s</text>\n", x, y, class, anchor, escape(text))
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer takes all
	return b.String()
}
