"""What listens: GitHub's webhooks, and the questions an operator's tooling asks."""
