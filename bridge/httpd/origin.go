package httpd

import (
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// maxAge is how long a browser may keep an answer about CORS, in seconds.
const maxAge = 600

// allowOrigins returns the middleware that lets scripts of some origins read answers.
// Where any origin may, every answer says so, also one to a request without an Origin: so
// do the deployed AIRC registries, and caches then keep one answer for all.
//
// spec: airc §11
func allowOrigins(origins []string) echo.MiddlewareFunc {
	checked := before(middleware.CORSWithConfig(middleware.CORSConfig{AllowOrigins: origins, ExposeHeaders: exposed(), MaxAge: maxAge}))
	if !slices.Contains(origins, "*") {
		return checked
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		answer := checked(next)
		return func(c echo.Context) error {
			c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
			return answer(c)
		}
	}
}

// exposed returns the headers that scripts of other origins may read.
func exposed() []string {
	return []string{"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
}
