"""GitHub from our side: webhooks read, tokens minted, calls made; no token leaves this package but by `App.token`."""
