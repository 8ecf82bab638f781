package airc

import "strings"

// fence marks a text that a stranger wrote, where it is put into one of ours: agents
// read both, and must not take the one for the other. What would end the fence early
// is written out.
//
// spec: airc-v0.1.1 §12.3
func fence(from, text string) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	return `<external_message source="airc" from="` + escape.Replace(from) + "\">\n" + escape.Replace(text) + "\n</external_message>"
}
