package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width     = 760 // points
	rowHeight = 17
	aroundRow = 62 // title, axis
)

// Colours by reader. The figures are beside the bars, and names too: nothing depends on them.
var (
	own     = color.RGBA{R: 0x0b, G: 0x5c, B: 0xad, A: 255}
	variant = color.RGBA{R: 0x7f, G: 0xb2, B: 0xe0, A: 255}
	peers   = []struct {
		prefix string
		color  color.RGBA
	}{
		{"cilium", color.RGBA{R: 0x8e, G: 0x6b, B: 0xbf, A: 255}},
		{"libbpfgo", color.RGBA{R: 0x4c, G: 0x9a, B: 0x5b, A: 255}},
		{"aya", color.RGBA{R: 0xb5, G: 0x3f, B: 0x5e, A: 255}},
		{"libbpf", color.RGBA{R: 0xd9, G: 0x8a, B: 0x2b, A: 255}},
	}
	other = color.RGBA{R: 0x8a, G: 0x8a, B: 0x8a, A: 255}
)

func colorOf(reader string) color.RGBA {
	if reader == ringfold {
		return own
	}
	if ours(reader) {
		return variant
	}
	for _, p := range peers {
		if strings.HasPrefix(reader, p.prefix) {
			return p.color
		}
	}
	return other
}

// row is a line of a plot: a bar, or the name of the case of those below it.
type row struct {
	heading string
	result
}

// bars draws rows, the first at the top. It implements plot.Plotter.
type bars struct {
	rows []row
	from float64 // where bars begin
}

func (p panel) rows() (rows []row) {
	for _, c := range p.cases {
		rows = append(rows, row{heading: c.name})
		for _, r := range c.results {
			rows = append(rows, row{result: r})
		}
	}
	return rows
}

// Plot draws all rows.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, r := range b.rows {
		at := vg.Point{X: x(b.from), Y: y(float64(-i))}
		if r.heading != "" {
			label(c, r.heading, vg.Point{X: at.X, Y: at.Y - 2}, true)
			continue
		}
		end := at.X
		if r.Value > b.from {
			end = x(r.Value)
		}
		half := vg.Points(rowHeight * 0.34)
		c.FillPolygon(colorOf(r.Reader), []vg.Point{
			{X: at.X, Y: at.Y - half}, {X: end, Y: at.Y - half}, {X: end, Y: at.Y + half}, {X: at.X, Y: at.Y + half},
		})
		label(c, caption(r.result), vg.Point{X: end + 4, Y: at.Y + 1.5}, false)
	}
}

// label writes text in black on white, right of a point.
func label(c draw.Canvas, s string, at vg.Point, bold bool) {
	style := textStyle(10)
	if bold {
		style.Font.Weight = xfont.WeightBold
	}
	style.YAlign = draw.YCenter
	size := style.Rectangle(s).Size()
	c.FillPolygon(color.White, []vg.Point{
		{X: at.X + 1, Y: at.Y - size.Y/2 - 1}, {X: at.X + size.X + 4, Y: at.Y - size.Y/2 - 1},
		{X: at.X + size.X + 4, Y: at.Y + size.Y/2 + 1}, {X: at.X + 1, Y: at.Y + size.Y/2 + 1},
	})
	c.FillText(style, vg.Point{X: at.X + 2, Y: at.Y}, s)
}

func textStyle(size float64) text.Style {
	return text.Style{
		Color:   color.Black,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)},
		Handler: plot.DefaultTextHandler,
	}
}

// scale is what an axis shows, and whether by its logarithm.
func scale(rows []row) (from, to float64, logarithmic bool) {
	least, most := math.Inf(1), 0.0
	for _, r := range rows {
		if r.Value > 0 {
			least, most = min(least, r.Value), max(most, r.Value)
		}
	}
	switch {
	case most == 0:
		return 0, 1, false
	case most/least < 15:
		return 0, most * 1.25, false // room for figures
	}
	from = math.Pow(10, math.Floor(math.Log10(least/1.5)))
	return from, most * math.Pow(most/from, 0.25), true
}

func newPlot(p panel) *plot.Plot {
	rows := p.rows()
	g := plot.New()
	from, to, logarithmic := scale(rows)
	// The X axis's own label is not in the middle of a logarithmic one.
	g.Title.Text = fmt.Sprintf("%s (%s)", p.title, p.goal)
	g.Title.TextStyle = textStyle(11)
	g.Title.TextStyle.XAlign, g.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	g.Title.Padding = vg.Points(4)
	g.X.Tick.Label.Font = textStyle(10).Font
	g.X.Min, g.X.Max = from, to
	g.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return ticks(lo, hi, logarithmic) })
	if logarithmic {
		g.X.Scale = plot.LogScale{}
		g.Title.Text += ", logarithmic"
	}
	var names plot.ConstantTicks
	for i, r := range rows {
		names = append(names, plot.Tick{Value: float64(-i), Label: r.Reader})
	}
	g.Y.Tick.Marker = names
	g.Y.Tick.Label = textStyle(10)
	g.Y.Tick.Label.XAlign, g.Y.Tick.Label.YAlign = draw.XRight, draw.YCenter
	g.Y.Tick.LineStyle.Width = 0
	g.Y.Min, g.Y.Max = float64(-len(rows))+0.4, 0.6
	g.Y.LineStyle.Width = vg.Points(0.5)
	g.Add(grid{}, &bars{rows, from})
	return g
}

// ticks are labelled in plain numbers.
func ticks(lo, hi float64, logarithmic bool) (all []plot.Tick) {
	if logarithmic {
		all = plot.LogTicks{}.Ticks(lo, hi)
	} else {
		all = plot.DefaultTicks{}.Ticks(lo, hi)
	}
	// Room would be left for labels beyond the axis.
	all = slices.DeleteFunc(all, func(t plot.Tick) bool { return t.Value < lo*(1-1e-9) || t.Value > hi })
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = number(all[i].Value)
		}
	}
	return all
}

// grid is light vertical lines at labelled ticks. It implements plot.Plotter.
type grid struct{}

// Plot draws the lines.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	style := draw.LineStyle{Color: color.Gray{0xdd}, Width: vg.Points(0.5)}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if t.Label != "" {
			c.StrokeLine2(style, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
}

// writeSVG draws panels below each other, on white, so that it reads on dark pages too.
func writeSVG(path string, panels []panel) error {
	var height float64
	for _, p := range panels {
		height += p.height()
	}
	canvas := vgsvg.New(vg.Points(width), vg.Points(height))
	all := draw.New(canvas)
	all.FillPolygon(color.White, []vg.Point{{}, {X: all.Max.X}, all.Max, {Y: all.Max.Y}})
	top := vg.Points(height)
	for _, p := range panels {
		c := all
		c.Max.Y, c.Min.Y = top, top-vg.Points(p.height())
		top = c.Min.Y
		newPlot(p).Draw(draw.Crop(c, 8, -12, 8, -6))
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// Few machines have the font that the text was measured with. Arial and Helvetica are as wide.
	svg := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, svg, 0o644)
}

func (p panel) height() float64 { return aroundRow + rowHeight*float64(len(p.rows())) }
