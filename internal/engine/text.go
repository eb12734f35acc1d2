package engine

// ErrorTexts makes encoding/json write these errors as their texts: of most it writes {}, and of a
// syscall.Errno a number. errors.Is and errors.As still find what they are.
func ErrorTexts(errs ...*error) {
	for _, err := range errs {
		if *err != nil {
			*err = text{*err}
		}
	}
}

type text struct{ error }

func (e text) Unwrap() error                { return e.error }
func (e text) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }
