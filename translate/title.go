package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"baton/federation"
)

// titleMember is the context member for the full text of a truncated title.
const titleMember = "description"

// OneLine replaces each control character and line end with a space, and trims the text.
func OneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text))
}

// FitTitle returns a text as the title of an offer: [OneLine] of at most [MaxTitleChars]. If the
// title is cut, the member "description" of the context gets the full text. A context
// that is not JSON, such as a reference, stays as it is.
func FitTitle(text, context string) (title, fitted string, losses []federation.Loss) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	title = OneLine(text)
	if utf8.RuneCountInString(title) <= MaxTitleChars {
		return title, context, nil
	}
	return cutTitle(text, context, string([]rune(title)[:MaxTitleChars]), fmt.Sprintf("longer than %d characters", MaxTitleChars))
}

// FitWireTitle is [FitTitle] for a wire that counts bytes: at most [MaxTitleBytes].
func FitWireTitle(text, context string) (title, fitted string, losses []federation.Loss) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	title = OneLine(text)
	if len(title) <= MaxTitleBytes {
		return title, context, nil
	}
	end := MaxTitleBytes
	for !utf8.RuneStart(title[end]) {
		end--
	}
	return cutTitle(text, context, title[:end], fmt.Sprintf("longer than %d bytes", MaxTitleBytes))
}

// cutTitle returns the start of a title, and a context with the full text.
func cutTitle(text, context, start, why string) (title, fitted string, losses []federation.Loss) {
	title = strings.TrimSpace(start)
	if context != "" && (!federation.InlineContext(context) || !json.Valid([]byte(context))) {
		why += ", and the context is not JSON and cannot hold the full text"
		return title, context, []federation.Loss{{Field: "title", Fate: federation.Cut, Why: why}}
	}
	return title, describe(text, context), []federation.Loss{{Field: "title", Fate: federation.Cut, Why: why}}
}

// describe adds the full text of a title to an inline context. If the context is a list, or uses
// the member for another text, the old context becomes the member "context" of the new one.
func describe(text, context string) string {
	var members map[string]json.RawMessage
	if context == "" {
		context = "{}"
	}
	if federation.DecodeJSON([]byte(context), &members) == nil {
		was, used := members[titleMember]
		var said string
		switch {
		case used && federation.DecodeJSON(was, &said) == nil && said == text:
			return context
		case !used && len(members) == 0:
			return "{" + member(titleMember, text) + "}"
		case !used:
			context = strings.TrimRightFunc(context, unicode.IsSpace)
			return context[:len(context)-1] + "," + member(titleMember, text) + "}"
		}
	}
	return `{"context":` + context + "," + member(titleMember, text) + "}"
}

// member encodes a text as a member of a JSON object.
func member(name, text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // every string has a JSON form
		panic("translate: " + err.Error())
	}
	return `"` + name + `":` + strings.TrimSpace(out.String())
}
