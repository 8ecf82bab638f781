package httpd

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// servedMethods are the methods that a handler may serve.
const servedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// refuseConnect answers CONNECT with 405 before a handler sees it: the server opens no
// tunnels, and such a request has no path to route.
//
// spec: RFC 9110 §9.3.6, §15.5.6
func refuseConnect(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Method != http.MethodConnect {
			return next(c)
		}
		c.Response().Header().Set("Allow", servedMethods)
		return c.JSONBlob(http.StatusMethodNotAllowed, []byte(`{"error":"method_not_allowed","message":"this server is no proxy"}`))
	}
}
