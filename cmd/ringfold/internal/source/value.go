package source

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// A Value is what a piece of a payload is: an int64, a uint64, a float64, a bool, a string (which may hold any bytes), or one of those
// below.
type Value any

// Field is a member of a struct.
type Field struct {
	Name  string
	Value Value
}

type (
	// Fields are the members of a struct, in their order.
	Fields  []Field
	raw     []byte // bytes that are not text
	address uint64 // a pointer
	// enumerator is the name of an enum's value.
	enumerator string
	values     []Value
)

// AppendText appends the fields of the outermost struct as text: name=value, with blanks between.
func (f Fields) AppendText(b []byte) []byte {
	for i, one := range f {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, cli.Printable(one.Name)...), '=')
		b = appendText(b, one.Value)
	}
	return b
}

func appendText(b []byte, v Value) []byte {
	switch v := v.(type) {
	case Fields:
		return append(v.AppendText(append(b, '{')), '}')
	case values:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, ' ')
			}
			b = appendText(b, one)
		}
		return append(b, ']')
	case enumerator:
		return append(b, cli.Printable(string(v))...)
	case string:
		return strconv.AppendQuote(b, v)
	case raw:
		return hex.AppendEncode(b, v)
	}
	return appendNumber(b, v)
}

// AppendJSON appends fields as an object, in their order, which a Go map would lose. Integers are numbers, whatever their size; addresses
// and raw bytes are strings of hexadecimal digits.
func (f Fields) AppendJSON(b []byte) []byte { return appendJSON(b, f) }

func appendJSON(b []byte, v Value) []byte {
	switch v := v.(type) {
	case Fields:
		b = append(b, '{')
		for i, one := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, marshal(one.Name)...), ':')
			b = appendJSON(b, one.Value)
		}
		return append(b, '}')
	case values:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, one)
		}
		return append(b, ']')
	case enumerator:
		return append(b, marshal(string(v))...)
	case string:
		return append(b, marshal(v)...)
	case raw:
		return append(hex.AppendEncode(append(b, '"'), v), '"')
	case address:
		return append(appendNumber(append(b, '"'), v), '"')
	case float64:
		if n, err := json.Marshal(v); err == nil {
			return append(b, n...)
		}
		return append(b, "null"...) // NaN, infinite
	}
	return appendNumber(b, v)
}

func appendNumber(b []byte, v Value) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(b, v)
	case address:
		return strconv.AppendUint(append(b, "0x"...), uint64(v), 16)
	}
	return append(b, '?')
}

// marshal is for strings.
func marshal(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it cannot fail
	}
	return b
}
