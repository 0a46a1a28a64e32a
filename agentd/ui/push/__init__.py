"""Web Push: browsers and phones are notified while no page of agentd is open."""
