package source

import (
	"math"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

func TestParseFilter(t *testing.T) {
	is := func(path, op, text string, number any) filter {
		return filter{condition: &condition{path, op, text, number}}
	}
	a, b, c := is("a", "==", "1", int64(1)), is("b", "<", "2", int64(2)), is("c", "!=", "x", nil)
	both := func(any bool, parts ...filter) filter { return filter{parts: parts, any: any} }
	for text, want := range map[string]filter{
		" ": {}, "a==1": a, "( a == 1 )": a,
		` pid == 12&&comm == "s\"h" && ret<-5 && a.b>= 0x10 &&c!='x y' && d==GREEN`: both(false,
			is("pid", "==", "12", int64(12)), is("comm", "==", `s"h`, nil), is("ret", "<", "-5", int64(-5)),
			is("a.b", ">=", "0x10", int64(16)), is("c", "!=", "x y", nil), is("d", "==", "GREEN", nil)),
		"a==1||b<2 || c!=x":     both(true, a, b, c),
		"a==1 && b<2 || c!=x":   both(true, both(false, a, b), c),
		"a==1||b<2&&c!=x":       both(true, a, both(false, b, c)),
		"(a==1||b<2)&&c!=x":     both(false, both(true, a, b), c),
		"a==1&&((b<2)||(c!=x))": both(false, a, both(true, b, c)),
	} {
		f, err := parseFilter(text)
		require.NoError(t, err, text)
		require.Equal(t, want, f, text)
	}
	for text, want := range map[string]string{
		"pid":                   `"pid" should be a condition`,
		"== 3":                  "should be a condition",
		"pid = 3":               "behind pid should be one of == != <= >= < >",
		"pid == ":               "a value is missing",
		"pid == && a == 1":      "a value is missing",
		"pid == || a == 1":      "a value is missing",
		"pid == 3 a == 1":       `"a == 1" should be && or || and a condition`,
		"pid == 3 | a > 1":      `"| a > 1" should be && or || and a condition`,
		"pid == 3 &&":           "should be a condition",
		"pid == 3 ||":           "should be a condition",
		"(pid == 3":             `"" should be && or || and a condition, or )`,
		"(pid == 3 a == 1)":     `"a == 1)" should be && or || and a condition, or )`,
		"pid == 3)":             `")" should be && or || and a condition`,
		"()":                    `")" should be a condition`,
		`comm == "sh`:           "the closing quote is missing",
		`a == 1 || comm == 'sh`: "the closing quote is missing",
	} {
		_, err := parseFilter(text)
		require.ErrorContains(t, err, want, text)
	}
}

// A filter holds as && and || say, and a loss is left out only by what losses have.
func TestMatch(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, k.Output(1, []byte("event")))
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	require.NoError(t, stream.ForEach(func(ev perfbuf.Event) error {
		for text, want := range map[string]bool{
			"": true, "cpu == 1": true, "cpu == 0": false,
			"cpu == 1 && size == 0": false, "cpu == 1 || size == 0": true, "cpu == 0 || size == 0": false,
			"cpu == 0 && size > 0 || kind == sample": true, "cpu == 0 && (size > 0 || kind == sample)": false,
		} {
			f, err := parseFilter(text)
			require.NoError(t, err)
			require.Equal(t, want, f.match(Event{Event: ev, From: &Source{}}, 0), text)
		}
		return nil
	}))
}

func FuzzParseFilter(f *testing.F) {
	f.Add(`pid == 12 && (comm != "sh" || x.y<='-1')`)
	f.Fuzz(func(t *testing.T, text string) {
		f, err := parseFilter(text)
		if err != nil {
			return
		}
		f.each(func(c *condition) error {
			require.NotEmpty(t, c.path)
			require.NotEmpty(t, c.op)
			return nil
		})
	})
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		value   Value
		literal string
		order   int
	}{
		{int64(-1), "-1", 0}, {int64(-1), "0", -1}, {int64(-1), "18446744073709551615", -1}, {uint64(math.MaxUint64), "-1", 1},
		{uint64(math.MaxUint64), "18446744073709551615", 0}, {uint64(math.MaxUint64 - 1), "18446744073709551615", -1},
		{0.5, "0.5", 0}, {0.5, "1", -1}, {int64(3), "2.5", 1}, {address(16), "0x10", 0},
		{"sh", "sh", 0}, {"sh", "zsh", -1}, {raw{0xab}, "AB", 0}, {true, "true", 0}, {false, "1", -1}, {enumerator("RED"), "RED", 0},
	} {
		for op, want := range map[string]bool{"==": c.order == 0, "!=": c.order != 0, "<": c.order < 0, "<=": c.order <= 0, ">": c.order > 0, ">=": c.order >= 0} {
			got := (&condition{op: op, text: c.literal, number: parseNumber(c.literal)}).compare(c.value)
			require.Equal(t, want, got, "%v %s %s", c.value, op, c.literal)
		}
	}
	require.False(t, (&condition{op: "!=", text: "1", number: int64(1)}).compare(values{}))
}

// --pid means the field pid, or tgid, and an enum is compared by name or number.
func TestFieldsOfConditions(t *testing.T) {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	color := &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 2}, {Name: "NONE", Value: math.MaxUint32}, {Name: "LAST", Value: 2}}}
	inner := &btf.Struct{Size: 4, Members: []btf.Member{{Name: "tgid", Type: u32}}}
	typ := &btf.Struct{Name: "e", Size: 8, Members: []btf.Member{{Type: inner}, {Name: "color", Type: color, Offset: 32}}}
	d, err := describe("e", typ)
	require.NoError(t, err)
	require.Equal(t, []string{"tgid", "color"}, d.fields())
	c := pidIs(7).condition
	require.Equal(t, "tgid", c.field(d))
	set := &Set{Sources: []*Source{{Decoder: d}}, flags: &Flags{}}
	require.NoError(t, set.checkCondition(c))
	for literal, payload := range map[string][]byte{
		"2": {7, 0, 0, 0, 2, 0, 0, 0}, "RED": {7, 0, 0, 0, 2, 0, 0, 0},
		"LAST": {7, 0, 0, 0, 2, 0, 0, 0}, // another name of RED
		"-1":   {7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "0xffffffff": {7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		c = &condition{path: "color", op: "==", text: literal, number: parseNumber(literal)}
		require.NoError(t, set.checkCondition(c))
		v, ok := d.Decode(payload).lookup("color")
		require.True(t, ok)
		require.True(t, c.compare(v), literal)
	}
	require.Equal(t, Fields{{"color", enumerator("RED")}}, d.Decode([]byte{7, 0, 0, 0, 2, 0, 0, 0}).Select([]string{"color", "none"}))
}
