package airc

import (
	"strings"

	"baton/federation"
)

// fence marks a text that a stranger wrote, where it is put into one of ours: agents
// read both, and must not take the one for the other. What would end the fence early
// is written out, and what no reader sees is taken out, line by line.
//
// spec: airc-v0.1.1 §12.3
func fence(from, text string) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = federation.PlainText(line)
	}
	text = strings.Join(lines, "\n")
	return `<external_message source="airc" from="` + escape.Replace(from) + "\">\n" + escape.Replace(text) + "\n</external_message>"
}
