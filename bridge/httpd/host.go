package httpd

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// checkHost refuses requests whose Host header carries a foreign name. A web page that
// points a name of its own at this listener (DNS rebinding) then reads nothing from it.
// An IP address and "localhost" pass: no stranger can serve a page under them. So does a
// request without a host, which no browser sends.
func checkHost(names []string, log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if isOwnHost(c.Request().Host, names) {
				return next(c)
			}
			log.LogAttrs(c.Request().Context(), slog.LevelInfo, "request with a foreign Host refused",
				slog.String("path", c.Request().URL.Path), slog.String("host", c.Request().Host), slog.String("client", c.RealIP()))
			return c.JSONBlob(http.StatusMisdirectedRequest, []byte(`{"error":"foreign_host","message":"this listener does not serve the host in the Host header"}`))
		}
	}
}

// isOwnHost reports whether a Host header names an address, this machine, or one of the
// names.
func isOwnHost(header string, names []string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}
