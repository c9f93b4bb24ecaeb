"""What every test folder shares: the fixtures of tests/controlplane (see its plugin module for what they give)."""

pytest_plugins = ["controlplane_kit.plugin"]
