//go:build !aya

package main

import "errors"

const withAya = false

func openAya(*collection, options) (peer, error) { return nil, errors.New("built without aya") }
