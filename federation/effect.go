package federation

// Effect is a write to one network's own tables that joins the transaction of a filed
// step. The record passes it to the tables that know its type, and does not look inside. A
// [*RefusalError] of that write keeps the step from being filed.
type Effect any
