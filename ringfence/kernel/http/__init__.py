"""The HTTP door's common part: endpoints that declare who may call them and what they take and answer."""
