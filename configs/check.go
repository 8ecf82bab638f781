package configs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Each table of the frame has a method that checks it, and adds its mistakes to the given table.

func (f *File) home(t Table) {
	switch {
	case f.Home.Name == "":
		t.Mistake("name", "required: the host name of this gateway, such as gw.example")
	case !isHostName(f.Home.Name):
		t.Mistake("name", "want a lower-case host name with a dot, such as gw.example")
	}
	if !isLine(f.Home.Description) {
		t.Mistake("description", "want one line of 1 to "+strconv.Itoa(maxLineBytes)+" bytes")
	}
	if f.Home.DataDir == "" {
		t.Mistake("data_dir", "want a folder")
	}
}

func (f *File) http(t Table) {
	listenAddress(t, "listen", f.HTTP.Listen)
	if u, ok := parseOrigin(f.HTTP.PublicURL); !ok || u.Scheme != "http" && u.Scheme != "https" {
		t.Mistake("public_url", "want http:// or https:// and a host, without a path")
	}
	for _, origin := range f.HTTP.CORSOrigins {
		if _, ok := parseOrigin(origin); !ok && origin != "*" {
			t.Mistake("cors_origins", `want "*" or origins such as "https://app.example"`)
		}
	}
	positive(t, "max_body_bytes", f.HTTP.MaxBodyBytes)
	oneOf(t, "forwarded_header", f.HTTP.ForwardedHeader, "x-forwarded-for", "forwarded")
	if f.HTTP.TLS && f.TLS.CertFile == "" && f.TLS.KeyFile == "" && f.TLS.Mode != ACMEMode {
		t.Mistake("tls", `want a certificate: cert_file and key_file in [tls], or mode = "acme"`)
	}
	if f.TLS.Mode == ACMEMode && f.HTTP.Listen == "" && f.ACME.HTTPListen == "" {
		t.Mistake("listen", "want a listener, or http_listen in [tls.acme]: the authority connects to it to check the domains")
	}
}

func (f *File) admin(t Table) {
	listenAddress(t, "listen", f.Admin.Listen)
	if isPublic(f.Admin.Listen) {
		t.Mistake("listen", "it has no TLS, so tokens would cross the internet in plain text: want an address of loopback or of a private network, with a proxy or a tunnel to it")
	}
	oneOf(t, "debug", f.Admin.Debug, "loopback", "token")
}

func (f *File) relay(t Table) {
	listenAddress(t, "listen", f.Relay.Listen)
	if len(f.Relay.URLs) > 0 && f.Relay.Listen != "" {
		t.Mistake("listen", "with urls there is no server in this process: want one of the two")
	}
	for key, value := range map[string]string{"creds_file": f.Relay.CredsFile, "nkey_file": f.Relay.NKeyFile, "ca_file": f.Relay.CAFile} {
		if value != "" && len(f.Relay.URLs) == 0 {
			t.Mistake(key, "it requires urls")
		}
	}
	switch {
	case f.Relay.Replicas < 1 || f.Relay.Replicas > MaxReplicas:
		t.Mistake("replicas", "want 1 to "+strconv.Itoa(MaxReplicas))
	case f.Relay.Replicas > 1 && len(f.Relay.URLs) == 0:
		t.Mistake("replicas", "one server stores one copy: for more copies, set urls of a cluster")
	}
	switch {
	case f.Relay.MaxBytes < minStreamBytes:
		t.Mistake("max_bytes", "want "+strconv.Itoa(minStreamBytes)+" or more")
	case f.Relay.MaxBytes > DefaultStreamBytes && f.Relay.Listen != "":
		t.Mistake("max_bytes", "an account has room for "+strconv.Itoa(DefaultStreamBytes)+" bytes in each stream")
	}
}

func (f *File) policy(t Table) {
	if f.Policy.Require != "signed" && f.Policy.Require != "vouched" {
		t.Mistake("require", `want "signed" or "vouched"`)
	}
	if !slices.Contains([]string{"members", "agents", "any"}, f.Policy.OpenOffers) {
		t.Mistake("open_offers", `want "members", "agents" or "any"`)
	}
}

func (f *File) fetch(t Table) {
	positiveDuration(t, "timeout", f.Fetch.Timeout)
	positive(t, "max_bytes", f.Fetch.MaxBytes)
	positive(t, "per_host", int64(f.Fetch.PerHost))
	for _, network := range f.Fetch.DeniedNetworks {
		if p, err := netip.ParsePrefix(network); err != nil || p.Addr().Is4In6() {
			t.Mistake("denied_networks", fmt.Sprintf("want CIDRs, such as 198.51.100.0/24 or 2001:db8::/32; not %q", network))
		}
	}
}

func (f *File) identity(t Table) {
	u, ok := parseOrigin(f.Identity.PLCURL)
	if !ok || u.Scheme != "https" && (u.Scheme != "http" || !f.Fetch.AllowPrivate) {
		t.Mistake("plc_url", "want https:// and a host, without a path; http:// takes allow_private in [fetch]")
	}
	positiveDuration(t, "cache_ttl", f.Identity.CacheTTL)
	positiveDuration(t, "negative_ttl", f.Identity.NegativeTTL)
	if f.Identity.StaleTTL < f.Identity.CacheTTL {
		t.Mistake("stale_ttl", "want cache_ttl or more")
	}
}

func (f *File) keys(t Table) {
	if len(f.Keys.Signer) > 0 && !filepath.IsAbs(f.Keys.Signer[0]) {
		t.Mistake("signer", `want a program by its full path, and its arguments, such as ["/usr/bin/my-signer"]`)
	}
}

func (f *File) store(t Table) {
	oneOf(t, "driver", f.Store.Driver, SQLite, Postgres)
	if f.Store.Path == "" {
		t.Mistake("path", "want a file")
	}
	if (f.Store.Driver == Postgres) != (f.Store.DSNFile != "") {
		t.Mistake("dsn_file", `want a file with a connection string, only for driver "postgres"`)
	}
}

func (f *File) webhooks(t Table) {
	if f.Webhooks.MaxPerDID < 1 {
		t.Mistake("max_per_did", "want 1 or more")
	}
	if f.Webhooks.MaxAttempts < 1 {
		t.Mistake("max_attempts", "want 1 or more")
	}
}

func (f *File) limits(t Table) {
	for key, value := range map[string]int64{
		"did_events_per_minute":  int64(f.Limits.DIDEventsPerMinute),
		"registrations_per_hour": int64(f.Limits.RegistrationsPerHour),
		"user_events_per_minute": int64(f.Limits.UserEventsPerMinute),
		"link_events_per_second": int64(f.Limits.LinkEventsPerSecond),
		"max_hops":               int64(f.Limits.MaxHops),
		"inbox_events":           int64(f.Limits.InboxEvents),
		"inbox_bytes":            f.Limits.InboxBytes,
		"open_handoffs_per_did":  int64(f.Limits.OpenHandoffsPerDID),
		"context_bytes":          f.Limits.ContextBytes,
		"context_bytes_per_did":  f.Limits.ContextBytesPerDID,
		"deferred_per_origin":    int64(f.Limits.DeferredPerOrigin),
		"deferred_total":         int64(f.Limits.DeferredTotal),

		"connections_per_address":      int64(f.Limits.ConnectionsPerAddress),
		"http_connections_per_address": int64(f.Limits.HTTPConnectionsPerAddress),
		"unregistered_connections":     int64(f.Limits.UnregisteredConnections),
		"logins_per_minute":            int64(f.Limits.LoginsPerMinute),
		"address_events_per_minute":    int64(f.Limits.AddressEventsPerMinute),

		"inbox_events_per_sender":       int64(f.Limits.InboxEventsPerSender),
		"inbox_bytes_per_sender":        f.Limits.InboxBytesPerSender,
		"first_contacts":                int64(f.Limits.FirstContacts),
		"first_contacts_per_sender":     int64(f.Limits.FirstContactsPerSender),
		"new_dids_per_hour":             int64(f.Limits.NewDIDsPerHour),
		"new_dids_per_address_per_hour": int64(f.Limits.NewDIDsPerAddressPerHour),
		"record_bytes_per_hour":         f.Limits.RecordBytesPerHour,
	} {
		if value < 0 {
			t.Mistake(key, "want 1 or more, or 0 for no limit")
		}
	}
	if f.Limits.HTTPConnections < 0 {
		t.Mistake("http_connections", "want 1 or more, or 0 for half of the open files that the system allows")
	}
	positiveDuration(t, "clock_skew", f.Limits.ClockSkew)
	positiveDuration(t, "max_deadline", f.Limits.MaxDeadline)
}

func (f *File) retention(t Table) {
	for key, value := range map[string]time.Duration{
		"unanswered":    f.Retention.Unanswered,
		"abandoned":     f.Retention.Abandoned,
		"undelivered":   f.Retention.Undelivered,
		"finished":      f.Retention.Finished,
		"dead":          f.Retention.Dead,
		"airc_messages": f.Retention.AIRCMessages,
		"messages":      f.Retention.Messages,
		"chat":          f.Retention.Chat,
	} {
		if value < 0 {
			t.Mistake(key, "want more than 0s, or 0s for ever")
		}
	}
	if f.Retention.IDs != 0 && f.Retention.IDs < MinIDs {
		t.Mistake("ids", "want 720h or more, or 0s for ever")
	}
}

func (f *File) log(t Table) {
	oneOf(t, "level", f.Log.Level, "debug", "info", "warn", "error")
	oneOf(t, "format", f.Log.Format, "text", "json")
}

func positive(t Table, key string, value int64) {
	if value < 1 {
		t.Mistake(key, "want 1 or more")
	}
}

func positiveDuration(t Table, key string, value time.Duration) {
	if value <= 0 {
		t.Mistake(key, "want more than 0s")
	}
}

func oneOf(t Table, key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		t.Mistake(key, "want "+strings.Join(allowed, " or "))
	}
}

// listenAddress accepts host:port, with an empty host for all addresses, and "" for no listener.
func listenAddress(t Table, key, value string) {
	if value == "" {
		return
	}
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		t.Mistake(key, "want host:port")
	}
}

func isPublic(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsGlobalUnicast() && !address.IsPrivate() && !isShared(address.Unmap())
}

// isShared reports whether an address is in a range for internal use by providers and tunnels.
//
// spec: RFC 6598
func isShared(address netip.Addr) bool {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10).Contains(address)
}

func parseOrigin(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme+"://"+u.Host != s {
		return nil, false
	}
	return u, true
}

// maxLineBytes bounds a description, which shares one line of IRC, of 512 bytes, with names of up
// to 255 bytes.
const maxLineBytes = 200

func isLine(s string) bool {
	return s != "" && len(s) <= maxLineBytes && !strings.ContainsFunc(s, unicode.IsControl)
}

// isHostName accepts labels of lower-case letters, digits and hyphens. The last label must not be a
// number, as in an IP address.
//
// spec: RFC 1123 §2.1
func isHostName(s string) bool {
	const maxName, maxLabel = 253, 63 // bytes
	labels := strings.Split(s, ".")
	if len(labels) < 2 || len(s) > maxName {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// Warnings returns problems that do not prevent the start, such as an expired certificate.
func (f *File) Warnings(now time.Time) (all []Mistake) {
	if host, _, err := net.SplitHostPort(f.Admin.Listen); err == nil && isWildcard(host) {
		all = append(all, f.mistake("admin.listen", "admin.listen", "it has no TLS, and listens on all addresses: let a firewall pass only a private network to it"))
	}
	if f.certificate == nil {
		return all
	}
	if err := CheckValidity(f.certificate.Leaf, now); err != nil {
		all = append(all, f.mistake("tls.cert_file", "tls.cert_file", err.Error()+": put a valid one there, with its key in "+f.Path(f.TLS.KeyFile)))
	}
	return all
}
