"""A skin-lesion assistant that knows how sure it is. Research use only, not a medical device.

A local web application and a command around one network: it answers with probabilities that are
calibrated for the clinic at hand, without labels, and refers what it is not sure of.
"""
