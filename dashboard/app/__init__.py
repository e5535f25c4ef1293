"""The application: routes, shell, security, server."""
