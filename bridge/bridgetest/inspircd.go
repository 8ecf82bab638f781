//go:build linux

package bridgetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/baton-gateway/baton/federation/federationtest"
)

const inspircdPath = "/usr/sbin/inspircd"

// Timeouts for a real server. On an idle machine it is ready in 30 ms, and stops sooner.
const (
	inspircdStart = 10 * time.Second
	inspircdStop  = 3 * time.Second
	inspircdPoll  = 10 * time.Millisecond
)

// InspIRCdConfig describes a real server and the one server that may link to it.
type InspIRCdConfig struct {
	Binary       string // of InspIRCd 4; "" for the InspIRCd 3 of Debian's package
	Name, SID    string
	LinkName     string
	Modules      []string // in addition to the modules of a link
	Operator     string   // name and password of an operator with all permissions; "" for none
	SendPassword string
	RecvPassword string // expected from the peer
	Gateway      string // listen address of the gateway, for a server that dials; or ""
	Services     string // a second server that may link, with the same passwords; "" for none
	TLS          *InspIRCdTLS
}

// InspIRCdTLS enables TLS on the links of a server.
type InspIRCdTLS struct {
	CertFile, KeyFile string
	Fingerprint       string // required of the gateway's certificate
}

// InspIRCd is a running InspIRCd 3 or 4 on the loopback.
type InspIRCd struct {
	binary     string
	ClientAddr string
	LinkAddr   string
	config     string
	cmd        *exec.Cmd
	exited     chan struct{}
}

// StartInspIRCd runs a server with its files in a directory, and waits until it accepts
// connections. It ends with this process.
func StartInspIRCd(ctx context.Context, dir string, cfg InspIRCdConfig) (*InspIRCd, error) {
	d := &InspIRCd{binary: cmp.Or(cfg.Binary, inspircdPath), config: filepath.Join(dir, "inspircd.conf")}
	if _, err := os.Stat(d.binary); err != nil {
		return nil, fmt.Errorf("no InspIRCd here: apt-get install inspircd: %w", err)
	}
	addrs, err := federationtest.FreeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	d.ClientAddr, d.LinkAddr = addrs[0], addrs[1]
	if err := os.WriteFile(d.config, []byte(d.configText(cfg)), 0o600); err != nil {
		return nil, fmt.Errorf("write the server's configuration: %w", err)
	}
	return d, d.start(ctx)
}

func (d *InspIRCd) configText(cfg InspIRCdConfig) string {
	_, clients, _ := strings.Cut(d.ClientAddr, ":")
	_, servers, _ := strings.Cut(d.LinkAddr, ":")
	modules := append([]string{
		"cap", "ircv3", "ircv3_ctctags", "ircv3_msgid", "ircv3_servertime", "ircv3_echomessage", "spanningtree",
	}, cfg.Modules...)
	if cfg.Binary == "" {
		modules = append(modules, "sha256")
	} else {
		modules = append(modules, "sha2")
	}
	var b strings.Builder
	bindTLS, linkTLS := "", ""
	if cfg.TLS != nil {
		modules = append(modules, "ssl_gnutls")
		bindTLS = ` sslprofile="S2S"`
		linkTLS = fmt.Sprintf(` sslprofile="S2S" fingerprint=%q`, cfg.TLS.Fingerprint)
		fmt.Fprintf(&b, "<sslprofile name=\"S2S\" provider=\"gnutls\" certfile=%q keyfile=%q hash=\"sha256\" requestclientcert=\"yes\">\n",
			cfg.TLS.CertFile, cfg.TLS.KeyFile)
	}
	gateway := "1" // an unused address: the server does not dial
	if cfg.Gateway != "" {
		_, gateway, _ = strings.Cut(cfg.Gateway, ":")
		fmt.Fprintf(&b, "<autoconnect period=\"1s\" server=%q>\n", cfg.LinkName)
	}
	fmt.Fprintf(&b, `<server name=%q description="test" network="Test" id=%q>
<admin name="a" nick="a" email="a@test.example">
<bind address="127.0.0.1" port=%q type="clients">
<bind address="127.0.0.1" port=%q type="servers"%s>
<connect name="main" allow="*" timeout="10" hardsendq="1048576" softsendq="1048576" recvq="1048576" localmax="100" globalmax="100"
 commandrate="10000000" threshold="100000" fakelag="no" useident="no" resolvehostnames="no">
<dns server="127.0.0.1" timeout="1">
<performance netbuffersize="65534" quietbursts="yes">
<options serverpingfreq="10" pingwarning="3">
<link name=%q ipaddr="127.0.0.1" port=%q allowmask="127.0.0.1/32" recvpass=%q sendpass=%q%s>
`, cfg.Name, cfg.SID, clients, servers, bindTLS, cfg.LinkName, gateway, cfg.RecvPassword, cfg.SendPassword, linkTLS)
	if cfg.Services != "" {
		fmt.Fprintf(&b, "<link name=%q ipaddr=\"127.0.0.1\" port=\"1\" allowmask=\"127.0.0.1/32\" recvpass=%q sendpass=%q>\n",
			cfg.Services, cfg.RecvPassword, cfg.SendPassword)
	}
	if cfg.Operator != "" {
		fmt.Fprintf(&b, `<class name="all" commands="*" usermodes="*" chanmodes="*" privs="*" snomasks="*">
<type name="all" classes="all">
<oper name=%q password=%q hash="plaintext" host="*@*" type="all">
`, cfg.Operator, cfg.Operator)
	}
	for _, module := range modules {
		fmt.Fprintf(&b, "<module name=%q>\n", module)
	}
	return b.String()
}

func (d *InspIRCd) start(ctx context.Context) error {
	args := []string{"--config", d.config, "--nofork", "--nopid", "--nolog"}
	if os.Geteuid() == 0 {
		args = append(args, "--runasroot")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), d.binary, args...) //nolint:gosec // a path that the operator of the tests names, and a file of our own
	cmd.Dir = filepath.Dir(d.config)                                          // it may write a core dump there
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start InspIRCd: %w", err)
	}
	d.cmd, d.exited = cmd, make(chan struct{})
	go func(exited chan<- struct{}) {
		_ = cmd.Wait() // meaningless after a signal
		close(exited)
	}(d.exited)
	ctx, cancel := context.WithTimeoutCause(ctx, inspircdStart, errors.New("InspIRCd does not take connections"))
	defer cancel()
	for _, addr := range []string{d.ClientAddr, d.LinkAddr} {
		if err := d.await(ctx, addr); err != nil {
			d.Stop()
			return err
		}
	}
	return nil
}

func (d *InspIRCd) await(ctx context.Context, addr string) error {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-d.exited:
			return errors.New("InspIRCd exited: a mistake in its configuration")
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", addr, context.Cause(ctx))
		case <-time.After(inspircdPoll):
		}
	}
}

// Stop ends the server and waits for it.
func (d *InspIRCd) Stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-d.exited:
	case <-time.After(inspircdStop):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
}

// Freeze suspends the server without closing its connections, until Thaw or Stop.
func (d *InspIRCd) Freeze() error { return d.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (d *InspIRCd) Thaw() error { return d.cmd.Process.Signal(syscall.SIGCONT) }

// Restart ends the server and starts it again with the same addresses.
func (d *InspIRCd) Restart(ctx context.Context) error {
	d.Stop()
	return d.start(ctx)
}
