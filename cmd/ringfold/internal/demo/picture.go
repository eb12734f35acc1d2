package demo

import (
	"bytes"
	_ "embed"
	"text/template"
)

// The picture follows the system's light or dark mode. It has a background of its own, as the page may have another mode. Its
// columns have fixed places, so that fonts of other widths disturb nothing.
//
//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("").Funcs(template.FuncMap{"cut": cut}).Parse(pictureText))

// pictureRow is a row in its panel. Its class is dim for the heads, bad or good for the pair in the wrong order.
type pictureRow struct {
	cells
	Y     int
	Class string
}

// picture draws the excerpt in both orders, as SVG.
func picture(s *summary) []byte {
	x := s.byRing.best
	panel := func(rows []row, class string) []pictureRow {
		drawn := []pictureRow{{cells{"ms", "CPU", "event", "pid", "command"}, 94, "dim"}}
		for i, r := range rows {
			drawn = append(drawn, pictureRow{r.cells(x), 118 + 24*i, ""})
			if r.wrong {
				drawn[i+1].Class = class
			}
		}
		return drawn
	}
	var b bytes.Buffer
	err := pictureTemplate.Execute(&b, map[string]any{
		"Headline": headline(s), "Height": 144 + 24*len(x.rows), "PanelHeight": 68 + 24*len(x.rows),
		"ByRing": panel(x.rows, "bad"), "InOrder": panel(x.inOrder(), "good"),
	})
	if err != nil {
		panic(err) // a Buffer takes all
	}
	return b.Bytes()
}
