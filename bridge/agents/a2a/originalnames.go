package a2a

import (
	"encoding/json"
	"fmt"

	"github.com/baton-gateway/baton/federation"
)

// originalNames are protocol buffer names that differ from the JSON names. ProtoJSON parsers accept both.
//
// spec: a2a-1.0 §5.5
func originalNames() map[string]string {
	return map[string]string{
		"accepted_output_modes": "acceptedOutputModes", "context_id": "contextId", "history_length": "historyLength", "include_artifacts": "includeArtifacts",
		"media_type": "mediaType", "message_id": "messageId", "page_size": "pageSize", "page_token": "pageToken", "reference_task_ids": "referenceTaskIds",
		"return_immediately": "returnImmediately", "status_timestamp_after": "statusTimestampAfter", "task_id": "taskId",
		"task_push_notification_config": "taskPushNotificationConfig",
	}
}

// withJSONNames skips free-form metadata and data.
func withJSONNames(params json.RawMessage) (json.RawMessage, error) {
	renamed, err := rename(params, originalNames())
	if err != nil {
		return nil, badParams("params: " + err.Error())
	}
	return renamed, nil
}

func rename(value json.RawMessage, names map[string]string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	var items []json.RawMessage
	changed := false
	switch {
	case federation.DecodeJSON(value, &members) == nil && members != nil:
		renamed := make(map[string]json.RawMessage, len(members))
		for name, member := range members {
			as := name
			if known, ok := names[name]; ok {
				as, changed = known, true
			}
			if _, twice := members[as]; twice && as != name {
				return nil, fmt.Errorf("members %q and %q are the same one", as, name)
			}
			if name != "metadata" && name != "data" {
				inner, err := rename(member, names)
				if err != nil {
					return nil, err
				}
				changed = changed || string(inner) != string(member)
				member = inner
			}
			renamed[as] = member
		}
		if changed {
			return json.Marshal(renamed)
		}
	case federation.DecodeJSON(value, &items) == nil && items != nil:
		for i, item := range items {
			inner, err := rename(item, names)
			if err != nil {
				return nil, err
			}
			changed = changed || string(inner) != string(item)
			items[i] = inner
		}
		if changed {
			return json.Marshal(items)
		}
	}
	return value, nil
}
