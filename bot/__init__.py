"""A self-hosted coding bot for GitHub: no pull request without a receipt."""
