package queue_test

import (
	"strconv"
	"testing"

	"github.com/baton-gateway/baton/federation/store/queue"
)

func TestRowNumbersMatchTheSchema(t *testing.T) {
	t.Parallel()
	for text, number := range map[string]int64{queue.NoticeBase: queue.FirstNotice, queue.MessageBase: queue.FirstMessage, queue.DocumentBase: queue.FirstDocument} {
		if strconv.FormatInt(number, 10) != text {
			t.Errorf("an item begins at %d, and in SQL at %s", number, text)
		}
	}
}
