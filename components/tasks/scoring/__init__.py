"""What runs inside the sandbox: functions from plain JSON to plain JSON that compute values and pass no verdict."""
