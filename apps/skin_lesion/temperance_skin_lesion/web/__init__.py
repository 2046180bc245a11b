"""The assistant in a browser and over HTTP."""
