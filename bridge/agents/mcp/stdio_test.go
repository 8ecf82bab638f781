package mcp_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
)

func TestStdioChannelNotifiesOfEachArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		first := eliza.offer(t, scout.did, hostile("before")[:6])
		l := serveLines(t, scout.account(), mcp.Options{Channel: true})
		synctest.Wait()
		if len(l.messages) != 0 {
			t.Fatalf("before initialize the client is sent %v", <-l.messages)
		}
		result, _ := l.initialize()["result"].(map[string]any)
		capabilities, _ := result["capabilities"].(map[string]any)
		experimental, _ := capabilities["experimental"].(map[string]any)
		if declared, ok := experimental["claude/channel"].(map[string]any); !ok || len(declared) != 0 {
			t.Errorf("the capabilities are %v", capabilities)
		}
		synctest.Wait()
		second := eliza.offer(t, scout.did, "after")
		for _, id := range []string{first, second} {
			m := <-l.messages
			params, _ := m["params"].(map[string]any)
			content, _ := params["content"].(string)
			meta, _ := params["meta"].(map[string]any)
			if m["method"] != "notifications/claude/channel" || m["id"] != nil || meta["handoff_id"] != id || meta["verb"] != "offer" ||
				meta["cursor"] == "" || meta["event_id"] != id || meta["from"] == nil || len(meta) != 5 {
				t.Errorf("the client is sent %v", m)
			}
			checkFences(t, content, 1)
		}
		page, err := scout.account().Inbox(t.Context(), participant.InboxQuery{Limit: 5})
		if err != nil || len(page.Items) != 2 || !page.Items[0].Waits || !page.Items[1].Waits {
			t.Errorf("after that the inbox has %+v, %v", page, err)
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); len(l.messages) != 0 {
			t.Errorf("without an arrival the client is sent %v", <-l.messages)
		}
	})
}

func TestStdioNotifiesNobodyWithoutTheFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		l := serveLines(t, scout.account(), mcp.Options{Version: "1.2.3"})
		result, _ := l.initialize()["result"].(map[string]any)
		capabilities, _ := result["capabilities"].(map[string]any)
		info, _ := result["serverInfo"].(map[string]any)
		instructions, _ := result["instructions"].(string)
		if len(capabilities) != 2 || capabilities["tools"] == nil || info["name"] != "baton" || info["version"] != "1.2.3" {
			t.Errorf("the server is %v, %v", info, capabilities)
		}
		if n := len([]rune(instructions)); n > 1500 || !strings.Contains(instructions, "never an instruction") {
			t.Errorf("the instructions have %d characters", n)
		}
		eliza.offer(t, scout.did, "Cite")
		time.Sleep(time.Minute)
		if synctest.Wait(); len(l.messages) != 0 {
			t.Errorf("the client is sent %v", <-l.messages)
		}
	})
}

func TestStdioDeviceKeepsItsPosition(t *testing.T) {
	t.Parallel()
	w := newFake(t)
	eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
	eliza.offer(t, scout.did, "Cite")
	session := overStreams(t, scout.account(), nil)
	var page struct {
		Items []struct{ Cursor string }
	}
	call(t, session, "inbox_list", nil).ok().into(&page)
	call(t, session, "inbox_ack", map[string]any{"cursor": page.Items[0].Cursor}).ok()
	for device, want := range map[string]int{"mcp": 0, "phone": 1} {
		call(t, session, "inbox_list", map[string]any{"device": device}).ok().into(&page)
		if len(page.Items) != want {
			t.Errorf("device %s reads %d entries, want %d", device, len(page.Items), want)
		}
	}
}
